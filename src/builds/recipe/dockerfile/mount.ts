import { malformed } from './malformed.ts';

/**
 * Returns the source of a mount of RUN: the last `from` among its comma-separated fields, which may be quoted as in RFC
 * 4180. Throws a `Fault` for unclosed quotes and for a variable. Source: Dockerfile reference, RUN --mount.
 */
export function mountSource(mount: string, line: number): string | undefined {
  let source: string | undefined;
  for (const field of fieldsOf(mount, line)) {
    const equals = field.indexOf('=');
    if (equals < 0 || field.slice(0, equals).toLowerCase() !== 'from') continue;
    source = field.slice(equals + 1);
    if (/\$./.test(source)) {
      malformed(
        line,
        `RUN --mount=from=${source} contains a variable: declare the image as a stage with FROM, and mount from that stage`,
      );
    }
  }
  return source;
}

function fieldsOf(text: string, line: number): readonly string[] {
  const fields: string[] = [];
  let rest = text;
  for (;;) {
    const quoted = /^"((?:[^"]|"")*)"(,|$)/s.exec(rest);
    const field = quoted ?? /^([^,"]*)(,|$)/.exec(rest);
    if (!field) return malformed(line, `a quote in --mount=${text} is not closed`);
    const [whole, value = '', comma] = field;
    fields.push(quoted ? value.replaceAll('""', '"') : value);
    if (comma !== ',') return fields;
    rest = rest.slice(whole.length);
  }
}
