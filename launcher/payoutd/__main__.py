"""`python -m payoutd` is the command `payoutd`."""

import sys

from payoutd.run import main

sys.exit(main())
