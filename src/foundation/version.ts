import { readFileSync } from 'node:fs';

export interface Version {
  readonly version: string;
  /** Full commit hash, or `unknown`. */
  readonly commitId: string;
}

const project = new URL('../../', import.meta.url);

/**
 * Returns the running version: that of the package, and the commit from `SLUICE_COMMIT` or the git
 * checkout.
 */
export function readVersion(commit = process.env.SLUICE_COMMIT): Version {
  const { version } = JSON.parse(readText('package.json') ?? '{}') as { version?: string };
  return { version: version ?? 'unknown', commitId: commit || checkedOutCommit() || 'unknown' };
}

function checkedOutCommit(): string | undefined {
  const head = readText('.git/HEAD')?.trim();
  const name = /^ref: (.+)$/.exec(head ?? '')?.[1];
  if (name === undefined) return head;
  const packed = readText('.git/packed-refs')
    ?.split('\n')
    .find(line => line.endsWith(` ${name}`));
  return readText(`.git/${name}`)?.trim() ?? packed?.split(' ')[0];
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(new URL(path, project), 'utf8');
  } catch {
    return undefined;
  }
}
