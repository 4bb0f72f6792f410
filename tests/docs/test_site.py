"""Every page but the laboratory's is in the navigation of the site, and every link and anchor leads somewhere."""

import importlib
import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.docs.pages import LAB, OUTSIDE, PAGES, ROOT

SITE = yaml.safe_load((ROOT / 'mkdocs.yml').read_text())


def leaves(nav) -> Iterator[str]:
    for entry in nav if isinstance(nav, list) else nav.values():
        if isinstance(entry, str):
            yield entry
        else:
            yield from leaves(entry)


def text_of(page: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r'^( *)```.*?^\1```$', '', (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> list[str]:
    """Of its headings; a second one of the same name is left out, since GitHub and the site call it otherwise."""
    headings = re.findall(r'^#+ (.*)$', text_of(page), flags=re.MULTILINE)
    names = [re.sub(r'\]\([^)]*\)|[^\w\- ]', '', heading.lower()).strip().replace(' ', '-') for heading in headings]
    return [name for name in names if names.index(name) == len(names) - 1 - names[::-1].index(name)]


def links(page: str) -> Iterator[tuple[str, str, str]]:
    """The text of each link from its bracket on, the file in the repository that it leads to, and the anchor there."""
    for text, target in re.findall(r'(!?\[[^\[\]]*)?\]\(([^)\s]+)\)', text_of(page)):
        if not re.match(r'[a-z]+:', target):
            path, _, anchor = target.partition('#')
            there = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
            yield text, str(there.relative_to(ROOT)), anchor


def test_the_navigation_names_every_page_once():
    pages = [OUTSIDE.get(page, page.removeprefix('docs/')) for page in PAGES]
    assert sorted(leaves(SITE['nav'])) == sorted(pages)


def test_no_page_of_the_laboratory_is_in_the_navigation():
    assert SITE['not_in_nav'].split() == ['lab/'] and 'lab/README.md' in LAB
    assert [page for page in leaves(SITE['nav']) if page in LAB] == []


def test_the_questions_come_in_their_order():
    sections = [name for entry in SITE['nav'] for name in entry]
    assert sections == ['Home', 'Start', 'Train', 'Deploy', 'Reference', 'Evidence', 'Contribute']


@pytest.mark.parametrize('page', [*PAGES, *LAB])
def test_links_and_anchors_lead_somewhere(page):
    for _, there, anchor in links(page):
        assert (ROOT / there).is_file(), f'{page}: no file {there}'
        if anchor:
            assert anchor in anchors(there), f'{page}: no heading {anchor} in {there}'


@pytest.mark.parametrize(
    'place',
    [
        'docs/deployment.md#on-a-raspberry-pi-or-another-board',
        'docs/your_own_data.md#1-the-folder',  # of YOLO labels, too
        'docs/watching.md#stop-and-resume',
        'LICENSE#',
        'docs/faq.md#',  # what it cannot do
    ],
)
def test_two_clicks_lead_there_from_the_landing_page(place):
    first = {(there, anchor) for _, there, anchor in links('README.md')}
    pages = {there for there, _ in first if there.endswith('.md')}
    second = {(there, anchor) for page in pages for _, there, anchor in links(page)}
    assert tuple(place.split('#')) in first | second


@pytest.mark.parametrize('page', PAGES)
def test_the_text_of_a_link_to_a_page_is_a_title_there(page):
    def plain(text: str) -> str:
        return re.sub(r'[`?.]', '', text).strip().lower()

    for text, there, _ in links(page):
        if there.endswith('.md') and text.startswith('['):
            titles = re.findall(r'^#+ (.*)$', text_of(there), re.MULTILINE)
            assert plain(text[1:]) in map(plain, titles), f'{page}: {text}] leads to {titles[0]}'


def test_the_landing_page_begins_with_picture_commands_and_table():
    page = (ROOT / 'README.md').read_text()
    marks = (
        '![',
        '|---|',
        'pip install numpy onnxruntime pillow',
        'run zoo:',
        'rebnn fit',
        'rebnn_mm.binarize',
    )
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_the_readme_is_short():
    assert len((ROOT / 'README.md').read_text().split()) <= 700


def test_the_files_that_contributors_are_sent_to_exist():
    page = (ROOT / 'CONTRIBUTING.md').read_text()
    named = re.findall(r'`((?:[\w.-]+/)*[\w.-]+\.(?:py|cpp|h|md|txt|toml|yml))`', page)
    places = ROOT, ROOT / 'rebnn_mm'
    assert 'export/exporter.py' in named
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []


def test_the_manual_is_short():
    words = {page: len((ROOT / page).read_text().split()) for page in PAGES if page.startswith('docs/')}
    assert {page: number for page, number in words.items() if number > 1500} == {}
    assert sum(words.values()) <= 25_000


@pytest.mark.parametrize('page', PAGES)
def test_a_page_fits_a_phone(page):
    """Lines of code have at most 80 characters, tables at most five columns, and a link says where it leads."""
    lines = (ROOT / page).read_text().splitlines()
    code, inside = [], False
    for line in lines:
        if line.strip().startswith('```'):
            inside = not inside
        elif inside:
            code.append(line)
    assert [line for line in code if len(line) > 80] == []
    assert [line for line in lines if re.fullmatch(r'(\| *:?-+:? *){6,}\|', line)] == []
    assert re.findall(r'\[[^\]]*\.md\]\(', text_of(page)) == []


@pytest.mark.parametrize(
    ('query', 'page'),
    [
        ('yolo', 'your_own_data.md'),
        ('raspberry pi', 'deployment.md'),
        ('resume', 'watching.md'),
        ('license', 'faq.md'),
        ('why 1 bit', 'one_bit.md'),
    ],
)
def test_one_page_has_the_search_word(query, page):
    """The theme ranks these words a thousand times above titles, and completes what is typed."""
    words = SITE['extra']['search_words']
    assert [name for name, known in words.items() if any(word.startswith(query) for word in known)] == [page]
    assert set(words) <= set(leaves(SITE['nav']))


@pytest.mark.parametrize('page', ['docs/results.md', 'docs/speed.md'])
def test_the_numbers_of_the_evidence_are_those_of_the_reports(page):
    reports = [ROOT / f'lab/reports/{name}.md' for name in ('results', 'one_bit_detectors', 'performance')]
    said = '\n'.join(report.read_text() for report in reports).replace('**', '')
    rows = re.findall(r'^\| [^|]+((?:\| [\d.]+[^|]* )+)\|', (ROOT / page).read_text(), flags=re.MULTILINE)
    numbers = [number.strip() for row in rows for number in row.split('|') if number.strip()]
    assert len(numbers) >= 10
    assert [number for number in numbers if not re.search(rf'(?<![\d.]){re.escape(number)}(?![\d.]*\d)', said)] == []


def test_picture_table_and_file_of_the_readme_are_one_model():
    from tools.docs.landing_picture import MODEL, read_rows

    page = (ROOT / 'README.md').read_text()
    rows = read_rows(page)
    cards = {f'zoo:{card["name"]}': card for card in json.loads((ROOT / 'rebnn_mm/zoo/cards.json').read_text())}
    ours = [name for name in rows if name in cards]
    assert ours[0] == MODEL and f'`{MODEL}`' in page and len(rows) > len(ours) > 1
    for name in ours:
        score, milliseconds, megabytes = rows[name]
        assert score == cards[name]['scores']['AP'] and cards[name]['time'].startswith(f'{milliseconds:g} ms')
        assert megabytes == float(f'{cards[name]["bytes"] / 1e6:.3g}')
    measured = read_rows((ROOT / 'docs/choose.md').read_text())
    assert {name: measured.get(name) for name in rows} == rows


@pytest.mark.parametrize('page', [page for page in PAGES if page.startswith('docs/api/')])
def test_what_the_api_pages_document_exists(page):
    for name in re.findall(r'^::: (\S+)$', (ROOT / page).read_text(), flags=re.MULTILINE):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, member = name.rpartition('.')
            assert hasattr(importlib.import_module(module), member), name
