"""Detect the objects in one image: print labels, scores and boxes, and write the image with the boxes drawn in.

    rebnn detect demo/coco_sample/val2017/000000214753.jpg work_dirs/faster_rcnn_r18_rebnn_coco/epoch_12.pth

The checkpoint contains its config; to use another one, give it before the checkpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import mmcv

from rebnn_mm.deploy.run import share
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import check_writable, config_file
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.detector import check_input, load_detector


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('image', type=Path, help='image file')
    parser.add_argument('config', type=config_file, nargs='?', help='config file; default: the one in the checkpoint')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('--out', type=Path, help='painted image to write; default: <image name>_detections.jpg here')
    parser.add_argument('--score-thr', type=share, default=0.3, help='lowest score; default: %(default)s')
    parser.add_argument('--device', help='cpu, cuda:0, ...; default: the first GPU if there is one')
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    out = args.out or Path(f'{args.image.stem}_detections.jpg')
    check_input(args.image, args.config, args.checkpoint)
    check_writable(out, inputs=[args.image, args.config, args.checkpoint])
    if not cv2.haveImageWriter(str(out)):
        raise RebnnError(f'cannot write a picture to {out}. End the name in .jpg or .png.')
    inferencer = load_detector(args.config, args.checkpoint, args.device)
    result = inferencer(str(args.image), pred_score_thr=args.score_thr, return_vis=True, no_save_vis=True)

    classes = inferencer.model.dataset_meta['classes']
    found = result['predictions'][0]
    shown = [index for index, score in enumerate(found['scores']) if score >= args.score_thr]
    for index in shown:
        score, label, box = found['scores'][index], found['labels'][index], found['bboxes'][index]
        print(f'{classes[label]:<16} {score:.2f}  x1 {box[0]:.0f}  y1 {box[1]:.0f}  x2 {box[2]:.0f}  y2 {box[3]:.0f}')
    print(f'{len(shown)} objects with a score of at least {args.score_thr:g} in {args.image}')

    with user_errors(output=out), whole_file(out) as part:
        mmcv.imwrite(mmcv.rgb2bgr(result['visualization'][0]), str(part))
    print(f'painted image: {out}')
