"""Print a script that completes `hgpo` in your shell: verbs, options and presets.

source <(hgpo completion bash)                                   # bash, also in ~/.bashrc
source <(hgpo completion zsh)                                    # zsh, also in ~/.zshrc
hgpo completion fish > ~/.config/fish/completions/hgpo.fish      # fish
"""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help=", ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    from . import build_parser

    words = completions(build_parser())
    print(_fish(words) if args.shell == "fish" else _bash(words, zsh=args.shell == "zsh"))
    return 0


def completions(parser: argparse.ArgumentParser, path: str = "") -> dict[str, list[str]]:
    """What may follow each chain of verbs (`verl launch`), the empty one first."""
    from ..config import preset_names

    found: dict[str, list[str]] = {path: []}
    for action in parser._actions:
        if action.help is argparse.SUPPRESS:
            continue
        found[path] += [option for option in action.option_strings if option.startswith("--")]
        if action.dest == "words":
            found[path] += preset_names()
        if isinstance(action, argparse._SubParsersAction):
            found[path] += list(action.choices)
            for name, child in action.choices.items():
                found |= completions(child, f"{path} {name}".strip())
        elif action.choices and not action.option_strings:
            found[path] += [str(choice) for choice in action.choices]
    return found


def _bash(words: dict[str, list[str]], *, zsh: bool) -> str:
    cases = "\n".join(
        f"    '{path}') words='{' '.join(dict.fromkeys(found))}' ;;" for path, found in words.items()
    )
    verbs = " ".join(f"'{path}'" for path in words if path)
    start = "autoload -Uz bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{start}_hgpo() {{
  local path='' next word words='' known
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    next="${{path:+$path }}$word"
    for known in {verbs}; do
      if [ "$known" = "$next" ]; then path="$next"; fi
    done
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _hgpo hgpo"""


def _fish(words: dict[str, list[str]]) -> str:
    lines = []
    for path, found in words.items():
        last = path.split()[-1] if path else ""
        when = f"__fish_seen_subcommand_from {last}" if last else "__fish_use_subcommand"
        options = [word[2:] for word in dict.fromkeys(found) if word.startswith("--")]
        plain = [word for word in dict.fromkeys(found) if not word.startswith("--")]
        lines += [f"complete -c hgpo -n '{when}' -l {option}" for option in options]
        if plain:
            lines.append(f"complete -c hgpo -n '{when}' -a '{' '.join(plain)}'")
    return "\n".join(lines)
