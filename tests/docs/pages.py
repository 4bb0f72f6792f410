"""The pages of the manual and of the laboratory."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOOKS = ast.parse((ROOT / 'tools/docs/hooks.py').read_text())
(OUTSIDE,) = (
    ast.literal_eval(step.value)
    for step in HOOKS.body
    if isinstance(step, ast.Assign) and step.targets[0].id == 'OUTSIDE'
)
LAB = [str(path.relative_to(ROOT)) for path in sorted((ROOT / 'lab').rglob('*.md'))]
PAGES = [*OUTSIDE, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / 'docs').rglob('*.md')))]
