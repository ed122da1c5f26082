import type { Script } from '../sections.ts';

/** Its first line is that of the script, or of the shell; the section's argument goes to that program. */
export function scriptFile({ text, argument }: Script): string {
  const [, own, rest = ''] = /^\s*(#!.*)\n([\s\S]*)$/.exec(text) ?? [];
  const first = [own?.trim() ?? '#!/bin/sh', argument].join(' ').trim();
  return `${first}\n\n${own === undefined ? text : rest}\n`;
}
