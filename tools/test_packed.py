"""``rebnn test-packed``, from a clone."""

from rebnn_mm.cli.test_packed import main

if __name__ == '__main__':
    main()
