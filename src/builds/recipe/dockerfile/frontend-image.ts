import { parseDirective } from './instructions.ts';
import { withoutIndent } from './words/shell-words.ts';

/** The image of the frontend that a Dockerfile specifies. */
export interface FrontendImage {
  readonly reference: string;
  readonly line: number;
}

/**
 * Returns the image that a `syntax` directive names, in each form that BuildKit accepts: `# syntax=`, `// syntax=`, and
 * a JSON document with a member `syntax`. A builder runs that image instead of its own parser, so any other conclusion
 * from the file may be wrong. Source: Dockerfile reference, Parser directives; BuildKit's behaviour,
 * `frontend/dockerfile/parser`.
 */
export function frontendImage(dockerfile: string): FrontendImage | undefined {
  const text = dockerfile.replace(/^\ufeff/, '');
  const lines = text.split('\n').map(line => line.replace(/\r$/, ''));
  const start = text.startsWith('#!') ? 1 : 0;
  return (
    inComments(lines, start, '#') ??
    inComments(lines, start, '//') ??
    inDocument(start === 0 ? text : text.slice(text.indexOf('\n') + 1))
  );
}

function inComments(
  lines: readonly string[],
  start: number,
  mark: string,
): FrontendImage | undefined {
  const seen = new Set<string>();
  for (let position = start; position < lines.length; position += 1) {
    const { key, value } = parseDirective(lines[position] ?? '', mark) ?? {};
    if (key === undefined || value === undefined || seen.has(key)) return undefined;
    seen.add(key);
    if (key === 'syntax') return { reference: value.split(' ', 1)[0] ?? '', line: position + 1 };
  }
  return undefined;
}

function inDocument(text: string): FrontendImage | undefined {
  if (!withoutIndent(text).startsWith('{')) return undefined;
  try {
    const { syntax } = JSON.parse(text);
    return typeof syntax === 'string' ? { reference: syntax, line: 1 } : undefined;
  } catch {
    return undefined;
  }
}
