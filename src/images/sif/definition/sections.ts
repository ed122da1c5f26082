import { labelsIn } from '../runtime/labels.ts';
import {
  type DefinitionStage,
  isBlankOrComment,
  refuseLine,
  type Section,
  shownText,
} from './parser.ts';

const knownSections = new Set([
  ...['arguments', 'environment', 'files', 'help', 'labels', 'post', 'runscript', 'setup'],
  ...['startscript', 'test'],
  ...['appenv', 'appfiles', 'apphelp', 'appinstall', 'applabels', 'apprun', 'appstart', 'apptest'],
]);

/** Throws a `Fault` with the line for a section that is unknown, or that an ordinary build cannot run. */
export function checkSections({ sections }: DefinitionStage): void {
  for (const { name, line, body } of sections) {
    if (knownSections.has(name)) continue;
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

/** Its first line is that of the script, or names the shell; that program gets the section's argument. */
export function scriptFile({ text, argument }: Script): string {
  const [, own, rest = ''] = /^\s*(#!.*)\n([\s\S]*)$/.exec(text) ?? [];
  const first = [own?.trim() ?? '#!/bin/sh', argument].join(' ').trim();
  return `${first}\n\n${own === undefined ? text : rest}\n`;
}

/** Returns the instruction that writes a text to a file unchanged. The path must not contain blanks. */
export function writeFile(path: string, text: string, mode?: '755'): string {
  const whole = text.endsWith('\n') || text === '' ? text : `${text}\n`;
  const end = endMark(whole);
  const flags = mode === undefined ? '' : `--chmod=${mode} `;
  return `COPY ${flags}<<'${end}' ${path}\n${whole}${end}`;
}

/** A line that the text does not contain, whatever a reader accepts as the end of a line. */
function endMark(text: string): string {
  const lines = new Set(text.split('\n').map(line => line.trim()));
  let mark = 'END';
  while (lines.has(mark)) mark += '_';
  return mark;
}

/** Returns the labels that the sections of a name list. */
export function labelsOf(
  { sections }: Pick<DefinitionStage, 'sections'>,
  section: string,
): Readonly<Record<string, string>> {
  const lines = sections
    .filter(({ name }) => name === section)
    .flatMap(({ body }) => body)
    .filter(line => !isBlankOrComment(line))
    .map(({ text }) => text.trim());
  return labelsIn(lines);
}
