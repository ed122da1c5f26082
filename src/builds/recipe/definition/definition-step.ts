import type { FailedPart } from '../recipe-kind.ts';

const sections: Readonly<Record<string, string>> = {
  files: 'files',
  prepare: 'post',
  host: 'setup',
  try: 'test',
};

/** Returns the section of a definition file that a step of its Dockerfile runs; undefined for any other step. */
export function sectionOfStep(step: string): FailedPart | undefined {
  const [, script = ''] = /\["\/bin\/sh","\/dev\/sluice\/(\w+)"/.exec(step) ?? [];
  const section = step.startsWith('[sluice-files-') ? 'files' : sections[script];
  if (section === undefined) return undefined;
  const isTest = section === 'test';
  const advice = isTest ? "; to build without it, set 'noTest' (sluice build --no-test)" : '';
  return { name: `'%${section}' of the definition file`, advice };
}
