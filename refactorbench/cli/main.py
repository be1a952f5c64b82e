"""The command line: parse, build one options model, call, print. Exit status: 0 done, 1 below the bar, 2 usage or task
error, 3 the infrastructure prevented a verdict, 130 interrupted."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from refactorbench import __version__
from refactorbench.cli import judges, run, show, stages, tasks
from refactorbench.errors import HarnessError, RefactorBenchError, did_you_mean
from refactorbench.progress import printable

AGAIN = "what was finished is kept, --resume DIR goes on from there"


class Commands(click.Group):
    """A group that suggests the nearest command on a typo."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise click.UsageError(f"no command '{args[0]}'{did_you_mean(args[0], self.list_commands(ctx))}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="refactorbench")
@click.option(
    "--root", type=click.Path(path_type=Path), help="The folder that holds tasks/ (default: found from here)."
)
@click.pass_context
def cli(ctx: click.Context, root: Path | None) -> None:
    """Tells whether a repository really moved to another technology stack without changing what its users see."""
    ctx.obj = root


for module in (run, show, judges, stages, tasks):
    for command in module.COMMANDS:
        cli.add_command(command)


def call(args: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status; every expected error becomes one message on stderr."""
    try:
        result = cli.main(args=list(args) if args is not None else None, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"interrupted: {AGAIN}", err=True)
        return 130
    except click.ClickException as e:
        e.show()
        return e.exit_code
    except RefactorBenchError as e:
        click.echo(printable(f"error: {e}"), err=True)
        return e.exit_status
    except SystemExit:  # click's answer to a closed stderr; its status would be that of a low score
        return HarnessError.exit_status
    except OSError as e:
        click.echo(
            f"error: {e.strerror or e}{f': {e.filename}' if e.filename else ''}; nothing was decided: {AGAIN}", err=True
        )
        return HarnessError.exit_status
    except Exception:
        # an unknown error is never evidence about a submission, so its status must not be that of a low score
        traceback.print_exc()
        click.echo(f"error: a fault of refactorbench itself (above); nothing was decided: {AGAIN}", err=True)
        return HarnessError.exit_status


def _terminate(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(call())
