import type { Completion } from '../command/command.ts';
import { type Place, type PlaceOption, quoted, wordsWithPlace } from './word-places.ts';

/** Returns the completion script for fish. */
export function fishScript(places: readonly Place[]): string {
  return `# fish completion for sluice: sluice completion fish | source
function __sluice_at
  set -l place
  for word in (commandline -opc)[2..-1]
    if contains -- "$place $word" ${wordsWithPlace(places).map(quoted).join(' ')}
      set place (string trim -- "$place $word")
    end
  end
  test "$place" = "$argv[1]"
end
complete -c sluice -e
complete -c sluice -f
${places.flatMap(linesOf).join('\n')}
`;
}

function linesOf({ words, next, options, completes }: Place): string[] {
  const start = `complete -c sluice -n ${quoted(`__sluice_at "${words.join(' ')}"`)}`;
  return [
    ...next.map(([name, summary]) => `${start} -a ${quoted(name)} -d ${quoted(summary)}`),
    ...(completes === undefined ? [] : [`${start} ${valuesOf(completes)}`]),
    ...options.map(option => `${start} ${optionOf(option)}`),
  ];
}

function optionOf({ name, letter, description, hasValue, completes }: PlaceOption): string {
  const short = letter === undefined ? '' : ` -s ${letter}`;
  const value = completes === undefined ? '-f' : valuesOf(completes);
  return `-l ${name}${short}${hasValue ? ` -r ${value}` : ''} -d ${quoted(description)}`;
}

function valuesOf(completes: Completion): string {
  if (completes === 'file') return '-F';
  if (completes === 'directory') return "-f -a '(__fish_complete_directories (commandline -ct))'";
  return `-f -a ${quoted(completes.join(' '))}`;
}
