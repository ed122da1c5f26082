import { refuseLine, shownText } from './definition-error.ts';
import { type DefinitionStage, isBlankOrComment, type Section } from './parser.ts';

const known = new Set([
  ...['arguments', 'environment', 'files', 'help', 'labels', 'post', 'runscript', 'setup'],
  ...['startscript', 'test'],
  ...['appenv', 'appfiles', 'apphelp', 'appinstall', 'applabels', 'apprun', 'appstart', 'apptest'],
]);

/** Throws a `Fault` with the line for a section that is unknown, or that an ordinary build cannot run. */
export function checkSections({ sections }: DefinitionStage): void {
  for (const { name, line, body } of sections) {
    if (known.has(name)) continue;
    if (name !== 'pre') refuseLine(line, `the section ${shownText(`%${name}`)} is unknown`);
    if (body.every(isBlankOrComment)) continue;
    refuseLine(
      line,
      "'%pre' would run on the build machine, outside the image, which this server does not allow: use '%post'",
    );
  }
}

/** The content of all sections of a name, one after another. */
export interface Script {
  readonly text: string;
  /** The text after the name of the section. */
  readonly argument: string;
}

/** Returns the sections of a name as one. Returns undefined if there are none, or if they are empty. */
export function scriptOf(
  { sections: all }: Pick<DefinitionStage, 'sections'>,
  name: string,
): Script | undefined {
  const sections = all.filter(section => section.name === name);
  const text = sections.map(textOf).join('');
  if (text === '') return undefined;
  return { text, argument: sections.findLast(({ argument }) => argument !== '')?.argument ?? '' };
}

export function textOf({ body }: Pick<Section, 'body'>): string {
  return body.map(({ text }) => `${text}\n`).join('');
}
