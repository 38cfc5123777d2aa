// Makes devnet_token.json from devnet_token.sol. Run it beside an npm install of solc:
//   npm install --no-save solc@0.8.28 && node chains/evm/devnet_token_compile.mjs
// Tests and the daemon read the JSON and need no compiler.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const solc = createRequire(join(process.cwd(), "package.json"))("solc");
const here = new URL(".", import.meta.url);
const source = "devnet_token.sol";
const input = {
  language: "Solidity",
  sources: { [source]: { content: readFileSync(new URL(source, here), "utf8") } },
  settings: {
    evmVersion: "paris", // runs on every chain, also those without PUSH0
    optimizer: { enabled: true, runs: 200 },
    metadata: { bytecodeHash: "none" }, // so that the same source gives the same bytes
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
for (const problem of output.errors ?? []) console.error(problem.formattedMessage);
const contract = output.contracts[source].DevnetToken;
const artifact = { compiler: solc.version(), abi: contract.abi, bytecode: "0x" + contract.evm.bytecode.object };
writeFileSync(new URL("devnet_token.json", here), JSON.stringify(artifact, null, 1) + "\n");
