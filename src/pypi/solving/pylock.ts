/** A package of a solution, as the solver writes it. */
export interface LockedProject {
  readonly name: string;
  readonly version: string;
  /** Read one after the other: a version can have tens of thousands. */
  readonly wheels: Iterable<LockedWheel>;
}

export interface LockedWheel {
  readonly url: string;
  readonly size: number | undefined;
  readonly sha256: string | undefined;
}

const field = /^(name|version) = "([^"\\]*)"$/;
const wheelUrl = /^"([^"\\]*)"/;
const wheelSize = /\bsize = (\d{1,15})\b/;
const wheelSha256 = /\bsha256 = "([0-9a-f]{64})"/;

// Without the line break before it, which each of ten thousands of lines has: the search would stop at all of them.
const packageStart = '[[packages]]\n';
const wheelsStart = '\nwheels = [';
const entryStart = '{ url = ';

/**
 * Returns the packages and wheels of a `pylock.toml` that uv wrote, one after the other: it has one field on each line, one wheel in
 * each pair of braces, and no escapes, since the addresses in it are those of the index on the loopback. Source: PyPA specifications,
 * `pylock.toml`.
 */
export function* readPylock(text: string): Generator<LockedProject> {
  let start = text.indexOf(packageStart);
  while (start >= 0) {
    const next = text.indexOf(packageStart, start + 1);
    yield readProject(text.slice(start + packageStart.length, next < 0 ? undefined : next));
    start = next;
  }
}

function readProject(block: string): LockedProject {
  const start = block.indexOf(wheelsStart);
  const fields = new Map<string, string>();
  for (const line of block.slice(0, start < 0 ? undefined : start).split('\n')) {
    const [, name, value] = field.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields.set(name, value);
  }
  return {
    name: fields.get('name') ?? '',
    version: fields.get('version') ?? '',
    wheels: { [Symbol.iterator]: () => readWheels(start < 0 ? '' : block.slice(start)) },
  };
}

function* readWheels(list: string): Generator<LockedWheel> {
  let start = list.indexOf(entryStart);
  while (start >= 0) {
    const next = list.indexOf(entryStart, start + 1);
    const entry = list.slice(start + entryStart.length, next < 0 ? undefined : next);
    const size = wheelSize.exec(entry)?.[1];
    yield {
      url: wheelUrl.exec(entry)?.[1] ?? '',
      size: size === undefined ? undefined : Number(size),
      sha256: wheelSha256.exec(entry)?.[1],
    };
    start = next;
  }
}
