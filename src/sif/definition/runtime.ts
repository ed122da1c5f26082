import type { DefinitionRuntime } from '../definition-runtime.ts';
import { labelsIn } from '../runtime/labels.ts';
import { appRuntimes } from './apps.ts';
import { type DefinitionStage, isBlankOrComment } from './parser.ts';
import { type Script, scriptOf } from './sections.ts';

/** What a stage says about its image, in the form that `apptainer build` gives it. */
export function runtimeOf(stage: DefinitionStage, text: string): DefinitionRuntime {
  const headers = [...stage.headers].map(([name, { value }]) => [name, value]);
  const apps = appRuntimes(stage);
  const script = (name: string) => {
    const found = scriptOf(stage, name);
    return found && scriptFile(found);
  };
  return {
    text,
    headers: Object.fromEntries(headers),
    labels: labelsOf(stage, 'labels'),
    environment: scriptOf(stage, 'environment')?.text,
    help: helpOf(stage),
    runscript: script('runscript'),
    startscript: script('startscript'),
    test: script('test'),
    ...(apps === undefined ? {} : { apps }),
  };
}

function helpOf(stage: DefinitionStage): string | undefined {
  const help = scriptOf(stage, 'help');
  return help && `${help.text}\n`;
}

/** Its first line is that of the script, or of the shell; the section's argument goes to that program. */
export function scriptFile({ text, argument }: Script): string {
  const [, own, rest = ''] = /^\s*(#!.*)\n([\s\S]*)$/.exec(text) ?? [];
  const first = [own?.trim() ?? '#!/bin/sh', argument].join(' ').trim();
  return `${first}\n\n${own === undefined ? text : rest}\n`;
}

/** The labels that the sections of a name list. */
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
