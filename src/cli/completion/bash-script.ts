import type { Completion } from '../command/command.ts';
import { placeWords, valueCases } from './case-patterns.ts';
import { type Place, quoted, spellingsOf } from './word-places.ts';

/** Returns the completion script for bash. */
export function bashScript(places: readonly Place[]): string {
  return `# bash completion for sluice: source <(sluice completion bash)
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} place= word
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$place $word" in
      ${placeWords(places)}) place="\${place:+$place }$word" ;;
    esac
  done
  case "$place $previous" in
${valueCases(places, replyOf).join('\n')}
  esac
  case "$place" in
${places.map(placeCase).join('\n')}
  esac
}
complete -F _sluice sluice
`;
}

function placeCase({ words, next, options, completes }: Place): string {
  const names = options.flatMap(spellingsOf).join(' ');
  const others = next.length > 0 ? next.map(([name]) => name) : completes;
  return `    ${quoted(words.join(' '))})
      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W ${quoted(names)} -- "$current"))
      else ${replyOf(others)}; fi ;;`;
}

function replyOf(completes: Completion | undefined): string {
  if (completes === undefined) return ':';
  if (typeof completes === 'string') {
    return `compopt -o filenames; COMPREPLY=($(compgen ${completes === 'file' ? '-f' : '-d'} -- "$current"))`;
  }
  return `COMPREPLY=($(compgen -W ${quoted(completes.join(' '))} -- "$current"))`;
}
