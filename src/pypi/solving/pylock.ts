/** A package of a solution, as the solver writes it. */
export interface LockedProject {
  readonly name: string;
  readonly version: string;
  readonly wheels: readonly LockedWheel[];
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

const packageStart = '\n[[packages]]\n';

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
  const lines = block.split('\n');
  const fields = new Map<string, string>();
  for (const line of lines) {
    const [, name, value] = field.exec(line) ?? [];
    if (name !== undefined && value !== undefined) fields.set(name, value);
  }
  const wheels = lines.slice(lines.findIndex(line => line.startsWith('wheels = [')));
  return {
    name: fields.get('name') ?? '',
    version: fields.get('version') ?? '',
    wheels: wheels
      .join('\n')
      .split('{ url = ')
      .slice(1)
      .map(entry => {
        const size = wheelSize.exec(entry)?.[1];
        return {
          url: wheelUrl.exec(entry)?.[1] ?? '',
          size: size === undefined ? undefined : Number(size),
          sha256: wheelSha256.exec(entry)?.[1],
        };
      }),
  };
}
