"""Print the list and the cards of docs/zoo.md.

python -m tools.docs.zoo
"""

from rebnn_mm.deploy.zoo import card_entries, cards, megabytes, score_text


def zoo_page() -> str:
    """The list and all cards as Markdown, for docs/zoo.md."""
    table = ['| name | file | score | finds |', '|---|---|---|---|']
    for card in cards():
        table.append(f'| `{card["name"]}` | {megabytes(card)} MB | {score_text(card["scores"])} | {card["finds"]} |')
    parts = ['\n'.join(table)]
    for card in cards():
        rows = [f'| {title} | {text} |' for title, text in card_entries(card, code='`')]
        parts.append('\n'.join([f'## {card["name"]}', '', '| | |', '|---|---|', *rows]))
    return '\n\n'.join(parts)


if __name__ == '__main__':
    print(zoo_page())
