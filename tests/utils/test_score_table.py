import io

from rich.console import Console

from rebnn_mm.utils.score_table import ap_rows, print_scores

COCO = {
    'coco/bbox_mAP': 0.196,
    'coco/bbox_mAP_50': 0.376,
    'coco/bbox_mAP_75': 0.187,
    'coco/bbox_mAP_s': -1.0,
    'coco/bbox_mAP_m': 0.212,
    'coco/bbox_mAP_l': 0.349,
}


def printed(scores):
    console = Console(width=88, record=True, file=io.StringIO())
    print_scores(scores, console)
    return console.export_text()


def test_percent_in_the_order_of_the_columns_and_a_dash_for_sizes_without_objects():
    assert ap_rows(COCO) == {'coco/bbox': [19.6, 37.6, 18.7, None, 21.2, 34.9]}
    line = next(line for line in printed(COCO).splitlines() if 'coco/bbox' in line)
    assert [cell.strip() for cell in line.strip('│').split('│')] == [
        'coco/bbox', '19.6', '37.6', '18.7', '-', '21.2', '34.9',
    ]  # fmt: skip


def test_masks_get_a_row_of_their_own():
    both = COCO | {key.replace('bbox', 'segm'): value / 2 for key, value in COCO.items()}
    assert list(ap_rows(both)) == ['coco/bbox', 'coco/segm']


def test_other_scores_are_printed_by_name_and_times_too():
    text = printed({'accuracy/top1': 66.9, 'time': 0.125})
    assert 'accuracy/top1: 66.9' in text and 'time: 0.125' in text
    assert 'Average precision' not in text


def test_no_scores_says_so():
    assert 'predicted nothing' in printed({})


def test_scores_of_glue_stand_beside_the_majority_class():
    text = printed({'glue/accuracy': 88.345, 'glue/accuracy_majority': 50.9174, 'time': 0.25})
    (line,) = [line for line in text.splitlines() if 'glue/' in line]
    assert [cell.strip() for cell in line.strip('│').split('│')] == ['glue/accuracy', '88.3', '50.9']
    assert 'majority class' in text and 'time: 0.25' in text
