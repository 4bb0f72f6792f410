"""Print the list and the cards of docs/zoo.md.

python -m tools.docs.zoo
"""

from rebnn_mm.deploy.zoo import ROWS, card_entries, cards, megabytes, score_text

SHOWN = [ROWS[key] for key in ('network', 'of', 'data', 'photo', 'limits')]
"""Rows of a card that stand on the page; ``rebnn zoo <name>`` prints all of them."""


def zoo_page() -> str:
    """Write the list and the main rows of each card as Markdown, for docs/zoo.md."""
    table = ['| name | file | score | finds |', '|---|---|---|---|']
    for card in cards():
        name, score = card['name'], score_text(card['scores'])
        table.append(f'| [{name}](#{name}) | {megabytes(card)} MB | {score} | {card["finds"]} |')
    parts = ['\n'.join(table)]
    for card in cards():
        rows = [f'| {title} | {text} |' for title, text in card_entries(card) if title in SHOWN]
        parts.append('\n'.join([f'## {card["name"]}', '', '| | |', '|---|---|', *rows]))
    return '\n\n'.join(parts)


if __name__ == '__main__':
    print(zoo_page())
