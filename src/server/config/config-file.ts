import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type YAMLError,
} from 'yaml';
import { whyUnreadable } from '../../foundation/fault.ts';

/** The settings in a configuration file. */
export interface ConfigFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** Returns the line of a setting, or of the nearest setting above it in the file that exists. */
  lineOf(path: readonly PropertyKey[]): number | undefined;
}

/** Reads a YAML file. Relative paths in it start at its directory. Throws {@link ConfigError}. */
export function readConfigFile(path: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseYaml(path, readText(path), lines);
  const value: unknown = document.toJS() ?? {};
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ConfigError(
      `The configuration file ${path} contains no settings: write 'name: value' lines`,
    );
  }
  const values = value as Record<string, unknown>;
  resolvePaths(values, dirname(resolve(path)));
  return { path, values, lineOf: wanted => lineOf(document, lines, wanted) };
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new ConfigError(`Cannot read the configuration file ${path}: ${whyUnreadable(cause)}`, {
      cause,
    });
  }
}

function parseYaml(path: string, text: string, lineCounter: LineCounter): Document.Parsed {
  const invalid = (places: readonly string[]) =>
    new ConfigError(`The configuration file ${path} is not valid YAML${places.join(',')}`);
  let document: Document.Parsed;
  try {
    document = parseDocument(text, { lineCounter, logLevel: 'error' });
    if (document.errors.length > 0) throw invalid(document.errors.map(placeOf));
    // Aliases are resolved here.
    document.toJS();
  } catch (error) {
    // Leaves out the parser's message: it shows lines of the file, which may contain passwords.
    throw error instanceof ConfigError ? error : invalid(['']);
  }
  return document;
}

/** ` at line 2, column 10 (bad indent)`; empty when the parser reports no place. */
function placeOf({ linePos, code }: YAMLError): string {
  const [start] = linePos ?? [];
  if (!start) return '';
  return ` at line ${start.line}, column ${start.col} (${code.toLowerCase().replaceAll('_', ' ')})`;
}

function lineOf(
  document: Document.Parsed,
  lines: LineCounter,
  path: readonly PropertyKey[],
): number | undefined {
  let node: unknown = document.contents;
  let offset: number | undefined;
  for (const name of path) {
    const [key, value] = childOf(node, name);
    if (key === undefined) break;
    offset = key.range?.[0] ?? offset;
    node = value;
  }
  return offset === undefined ? undefined : lines.linePos(offset).line;
}

/** The node that marks the place of a child, and the child. */
function childOf(parent: unknown, name: PropertyKey): readonly [Node | undefined, unknown] {
  if (isSeq(parent)) {
    const item = parent.items[Number(name)] as Node | undefined;
    return [item, item];
  }
  if (!isMap(parent)) return [undefined, undefined];
  const pair = parent.items.find(({ key }) => isScalar(key) && String(key.value) === String(name));
  return [pair?.key as Node | undefined, pair?.value];
}

const tlsFiles = ['certificate', 'key', 'clientCa'];

/** A path in a file has the same meaning wherever the server is started. */
function resolvePaths(values: Record<string, unknown>, folder: string): void {
  const inFolder = (object: Record<string, unknown>, names: readonly string[]): void => {
    for (const name of names) {
      if (typeof object[name] === 'string') object[name] = resolve(folder, object[name]);
    }
  };
  inFolder(values, ['data', 'dockerConfig']);
  inFolder((values.tls as Record<string, unknown> | null) ?? {}, tlsFiles);
  for (const files of Object.values((values.buildkitTls as object | null) ?? {})) {
    inFolder((files as Record<string, unknown> | null) ?? {}, ['ca', 'certificate', 'key']);
  }
  if (Array.isArray(values.accountFiles)) {
    for (const entry of values.accountFiles) inFolder(entry ?? {}, ['file']);
  }
  const messages = (values.messages as { webhooks?: unknown; mail?: unknown } | null) ?? {};
  const mails = { mail: messages.mail };
  const { registries, channels, pypi } = values;
  for (const places of [registries, channels, pypi, messages.webhooks, mails]) {
    for (const place of Object.values((places as object | null) ?? {})) {
      if (typeof place?.ca === 'string' && !place.ca.includes('-----BEGIN')) {
        place.ca = resolve(folder, place.ca);
      }
    }
  }
}

/** An unusable configuration; the message names each wrong setting and the reason. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
