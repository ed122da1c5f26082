import { refuseLine, shownText } from './error.ts';
import type { DefinitionStage, Section } from './parser.ts';

const known = new Set([
  ...['arguments', 'environment', 'files', 'help', 'labels', 'post', 'runscript', 'startscript'],
  'test',
]);

/** Throws a `Fault` with the line for a section that there is not, or that an ordinary build cannot do. */
export function checkSections({ sections }: DefinitionStage): void {
  for (const { name, line } of sections) {
    if (known.has(name)) continue;
    const shown = shownText(`%${name}`);
    if (name === 'setup' || name === 'pre') {
      refuseLine(
        line,
        `${shown} is run by the machine that builds, outside of the image, which nobody may here: do it in '%post'`,
      );
    }
    if (name.startsWith('app')) {
      refuseLine(
        line,
        `${shown} is for apps, which are not supported: use '%post' and '%runscript'`,
      );
    }
    refuseLine(line, `there is no section ${shown}`);
  }
}

/** What the sections of a name have in them, one after another. */
export interface Script {
  readonly text: string;
  /** What stands behind the name of the section. */
  readonly argument: string;
}

/** The sections of a name as one; undefined when there is none, or nothing is in it. */
export function scriptOf(stage: DefinitionStage, name: string): Script | undefined {
  const sections = stage.sections.filter(section => section.name === name);
  const text = sections.map(textOf).join('');
  if (text === '') return undefined;
  return { text, argument: sections.findLast(({ argument }) => argument !== '')?.argument ?? '' };
}

function textOf({ body }: Section): string {
  return body.map(({ text }) => `${text}\n`).join('');
}
