import type { Script } from '../sections.ts';

/** Its first line is that of the script, or names the shell; that program gets the section's argument. */
export function scriptFile({ text, argument }: Script): string {
  const [, own, rest = ''] = /^\s*(#!.*)\n([\s\S]*)$/.exec(text) ?? [];
  const first = [own?.trim() ?? '#!/bin/sh', argument].join(' ').trim();
  return `${first}\n\n${own === undefined ? text : rest}\n`;
}
