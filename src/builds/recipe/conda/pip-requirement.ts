import { oneLine } from '../text/one-line.ts';
import { refuse, shown } from '../text/refuse.ts';
import { hasCredentials } from '../text/web-address.ts';

/**
 * Reads a line for pip: a requirement or an option such as `--extra-index-url`. Throws a `Fault` for a line that
 * requires a file that does not exist, continues in the next line, or contains credentials. Source: pip, Requirements
 * File Format.
 */
export function readPipRequirement(field: string, text: string): string {
  const line = oneLine(field, text);
  if (line.endsWith('\\')) refuse(`'${field}': ${shown(line)} ends in a backslash: remove it`);
  if (hasCredentials(line)) {
    refuse(
      `'${field}' contains credentials in an address: recipes and logs are not secret, so remove them`,
    );
  }
  if (requiresFile(line)) {
    refuse(
      `'${field}': ${shown(line)} requires a file that is not in the image: list the packages themselves`,
    );
  }
  return line;
}

// A short option may have its value without a space.
const listOption = /^(?:-[rc]|--requirement\b|--constraint\b)/;
const editableOption = /^(?:-e|--editable\b)[ =]*["']?/;

function requiresFile(line: string): boolean {
  if (listOption.test(line)) return true;
  const editable = line.replace(editableOption, '');
  const isEditable = editable !== line;
  // What pip can edit is a directory, or a repository that a URL specifies.
  return /^[./]/.test(editable) || (isEditable && !editable.includes(':'));
}

/** Returns the name and the pinned version of a requirement; undefined for options, URLs and paths. */
export function parseRequirement(line: string): { name: string; version?: string } | undefined {
  const match = /^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[^\]]*\])?\s*(.*)$/s.exec(line);
  const [, name, rest = ''] = match ?? [];
  if (name === undefined || !/^(?:$|[=<>!~;@#(,])/.test(rest)) return undefined;
  const version =
    /^={2,3}\s*([A-Za-z0-9][A-Za-z0-9_.+!-]*?)(?:\.\*)?\s*(?:[;#].*|--hash.*)?$/s.exec(rest)?.[1];
  return { name, ...(version === undefined ? {} : { version }) };
}
