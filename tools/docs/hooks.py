"""Hooks of the site: take in the pages outside of docs/, rewrite their links, and write formulas."""

from __future__ import annotations

import html
import logging
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[2]
LOG = logging.getLogger('mkdocs.hooks')

OUTSIDE = {
    'README.md': 'index.md',
    'CONTRIBUTING.md': 'contributing.md',
    'CHANGELOG.md': 'changelog.md',
    'SECURITY.md': 'security.md',
    'demo/coco_sample/LICENSES.md': 'sample_licences.md',
    'demo/own_data.ipynb': 'own_data.md',
}
"""Pages of the repository, and what they are called in the site."""

LAB = [f'lab/{path.relative_to(ROOT / "lab")}' for path in sorted((ROOT / 'lab').rglob('*.md'))]
"""Pages of the laboratory: in the site under the same name, but neither in its navigation nor in its search."""

LINK = re.compile(r'(\]\()([^)\s#]+)(#[^)\s]*)?(\))')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set what YAML cannot name: anchors as GitHub makes them, and formulas as MathML, which browsers know."""
    config.mdx_configs['toc']['slugify'] = slugify(case='lower')
    fence = {'name': 'math', 'class': 'math', 'format': block_formula}
    config.mdx_configs.setdefault('pymdownx.superfences', {})['custom_fences'] = [fence]
    config.mdx_configs.setdefault('pymdownx.inlinehilite', {})['custom_inline'] = [{**fence, 'format': formula}]
    return config


def compile_runtime() -> list[Path]:
    """Compile librebnn for the page that runs it in the browser; without a compiler only that page does not work."""
    environment = {**os.environ, 'PYTHON': sys.executable}
    command = ['bash', str(ROOT / 'tools' / 'build_wasm.sh'), str(ROOT / 'build' / 'wasm' / 'site')]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        LOG.info('browser.md will not run models: %s', done.stderr.strip())
        return []
    module = Path(done.stdout.strip())
    return [module, module.with_name('rebnn.js')]


@event_priority(50)  # before the plugin of redirects, which looks for its targets
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of docs/, and the files that pages link to."""
    for source, name in OUTSIDE.items():
        if source.endswith('.ipynb'):
            text, resources = MarkdownExporter().from_filename(str(ROOT / source))
            files.append(File.generated(config, name, content=text))
            for picture, content in resources['outputs'].items():
                place = f'files/{posixpath.dirname(source)}/{picture}'
                files.append(File.generated(config, place, content=content))
        else:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for name in LAB:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for path in compile_runtime():
        files.append(File.generated(config, path.name, abs_src_path=str(path)))
    pages = {source: ROOT / source for source in (*OUTSIDE, *LAB)}
    pages.update({f'docs/{path.relative_to(ROOT / "docs")}': path for path in (ROOT / 'docs').rglob('*.md')})
    for source, path in pages.items():
        for _, target, _, _ in LINK.findall(path.read_text(encoding='utf-8')):
            there = in_repository(source, target)
            if there is None or there.startswith('docs/') or there in pages or not (ROOT / there).is_file():
                continue
            if files.get_file_from_path(f'files/{there}') is None:
                files.append(File.generated(config, f'files/{there}', abs_src_path=str(ROOT / there)))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, **_: Any) -> str:
    """Turn links into those of the site, give the search its words, and the page of methods every file of theirs."""
    names = {name: source for source, name in OUTSIDE.items()}
    here = page.file.src_uri
    source = here if here in LAB else names.get(here, f'docs/{here}')
    page.meta['tags'] = config.extra['search_words'].get(here, [])
    if here in LAB:
        page.meta['search'] = {'exclude': True}
    if here == 'api/methods.md':
        markdown += ''.join(
            f'\n::: rebnn_mm.methods.{path.stem}\n'
            for path in sorted((ROOT / 'rebnn_mm' / 'methods').glob('*.py'))
            if path.stem != '__init__'
        )

    def turned(found: re.Match[str]) -> str:
        before, target, anchor, after = found.groups()
        there = in_repository(source, target)
        if there is None:
            return found[0]
        name = there if there in LAB else OUTSIDE.get(there)
        if name is None:
            name = there.removeprefix('docs/') if there.startswith('docs/') else f'files/{there}'
        return f'{before}{posixpath.relpath(name, posixpath.dirname(here) or ".")}{anchor or ""}{after}'

    return LINK.sub(turned, markdown)


def in_repository(source: str, target: str) -> str | None:
    """The file that a link on a page means, from the root of the repository; None for an address elsewhere."""
    if re.match(r'[a-z]+:', target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def formula(source: str, *_: Any, **__: Any) -> str:
    """TeX within a line."""
    try:
        return convert(source.strip())
    except Exception:  # its errors have no common base; what it cannot write stays TeX
        return f'<code>{html.escape(source)}</code>'


def block_formula(source: str, *_: Any, **__: Any) -> str:
    """TeX on lines of its own."""
    return f'<div class="math">{formula(source).replace("inline", "block", 1)}</div>'
