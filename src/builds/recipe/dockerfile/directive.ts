import { trim } from '../../../foundation/text/trim.ts';
import { withoutIndent } from './words/space.ts';

const keys = new Set(['syntax', 'escape', 'check']);

/**
 * Parses a directive, `# key=value`, with its key in lower case; undefined for any other line. Source: Dockerfile
 * reference, Parser directives.
 */
export function parseDirective(
  line: string,
  mark: string,
): { readonly key: string; readonly value: string } | undefined {
  if (!line.startsWith(mark)) return undefined;
  const directive = /^([a-zA-Z][a-zA-Z0-9]*)[\t\f\r ]*=(.+)$/s;
  const [, name = '', text = ''] = directive.exec(withoutIndent(line.slice(mark.length))) ?? [];
  const key = name.toLowerCase();
  const value = trim(text, isPlainBlank);
  return keys.has(key) && value !== '' ? { key, value } : undefined;
}

function isPlainBlank(character: string): boolean {
  return '\t\f\r '.includes(character);
}
