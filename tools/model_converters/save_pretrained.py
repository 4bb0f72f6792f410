"""``rebnn save-pretrained``, from a clone."""

from rebnn_mm.cli.save_pretrained import main

if __name__ == '__main__':
    main()
