"""``rebnn choose-layers``, from a clone."""

from rebnn_mm.cli.choose_layers import main

if __name__ == '__main__':
    main()
