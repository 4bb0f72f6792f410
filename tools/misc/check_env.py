"""Print the installed versions and the known mistakes among them: ``python tools/misc/check_env.py``."""

import runpy
from pathlib import Path

# By path, because `import rebnn_mm` fails on the machines that need the check most.
CHECK = Path(__file__).resolve().parents[2] / 'rebnn_mm' / 'cli' / 'checks' / 'environment.py'

if __name__ == '__main__':
    runpy.run_path(str(CHECK), run_name='__main__')
