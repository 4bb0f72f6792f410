"""``rebnn split-ternary``, from a clone."""

from rebnn_mm.cli.split_ternary import main

if __name__ == '__main__':
    main()
