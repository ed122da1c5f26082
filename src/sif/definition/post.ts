import { postEnvironmentPath } from '../layers/post-environment.ts';
import { refuseLine } from './error.ts';
import { type DefinitionStage, isBlankOrComment } from './parser.ts';
import { scriptOf } from './sections.ts';

// A place that no image keeps anything of.
const mounted = '/dev/sluice';
const environmentFile = `/${postEnvironmentPath}`;
// Scripts add to that file what they want to be set when the image is run.
const prepare = [
  `mkdir -p ${environmentFile.replace(/\/[^/]*$/, '')}`,
  'cd /',
  `export APPTAINER_ENVIRONMENT=${environmentFile} SINGULARITY_ENVIRONMENT=${environmentFile}`,
  'exec "$@"',
].join(' && ');

/** The instructions that make a stage of nothing but a `%post` script, and those that run it. */
export interface PostInstructions {
  readonly stage: readonly string[];
  readonly run: readonly string[];
}

/**
 * What runs the `%post` of a stage of a definition file as Singularity does: by root, in `/`, by the shell, which
 * says each command and ends at the first that fails. Undefined when there is nothing to run.
 * Throws a `Fault` with the line for what the script wants and cannot have.
 */
export function postInstructions(
  stage: DefinitionStage,
  name: string,
): PostInstructions | undefined {
  const script = scriptOf(stage, 'post');
  if (script === undefined || script.text.trim() === '') return undefined;
  checkLabels(stage);
  const end = endMark(script.text);
  const command = ['/bin/sh', '-c', prepare, 'sh', '/bin/sh', '-ex'];
  const words = [...command, ...argumentsFor(script.argument, `${mounted}/post`)];
  return {
    stage: [`FROM scratch AS ${name}`, `COPY <<'${end}' /post\n${script.text}${end}`],
    run: [
      'USER 0',
      `RUN --mount=type=bind,from=${name},target=${mounted} ${JSON.stringify(words)}`,
    ],
  };
}

/** With `-c` the rest is a command, to which the script is the last argument. */
function argumentsFor(argument: string, script: string): readonly string[] {
  const words = argument === '' ? [] : argument.split(/\s+/);
  const at = words.indexOf('-c');
  if (at < 0) return [...words, script];
  return [...words.slice(0, at + 1), [...words.slice(at + 1), script].join(' ')];
}

function checkLabels({ sections }: DefinitionStage): void {
  const lines = sections.filter(({ name }) => name === 'post').flatMap(({ body }) => body);
  for (const line of lines) {
    if (isBlankOrComment(line) || !/(?:APPTAINER|SINGULARITY)_LABELS/.test(line.text)) continue;
    refuseLine(line.number, "labels that '%post' writes are not supported: list them in '%labels'");
  }
}

/** A line that the script does not have, whatever else a reader takes for the end of a line. */
function endMark(text: string): string {
  const lines = new Set(text.split('\n').map(line => line.trim()));
  let mark = 'END';
  while (lines.has(mark)) mark += '_';
  return mark;
}
