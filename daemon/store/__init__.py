"""The only room that speaks SQL: one module a table, its statements in the .sql beside it."""
