"""Errors are one sentence in the words of the command line."""

import pytest
import typer
from bke.inference import InputError
from bke.inference.cli.terminal import exit_codes


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no\nfile: use method='smc'", "no\\nfile: use --method smc"),
        ("noise_variance='clt' with it", "--noise-variance clt with it"),
        ("got 'smc', x=3 and name=None", "got 'smc', x=3 and name=None"),
        ("", "InputError"),
    ],
)
def test_an_error_is_one_sentence_in_the_words_of_the_command_line(message, said, capsys):
    with pytest.raises(typer.Exit) as ended, exit_codes(False):
        raise InputError(message)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"bke: {said}\n"
