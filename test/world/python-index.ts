import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The index of Python packages that pip uses on this machine, and the host of its files. */
export interface PythonIndex {
  /** Base URL, without credentials and without a slash at the end. */
  readonly url: string;
  /** Base URL of the host that has the files of the index. */
  readonly files: string;
  /** What a server needs to trust both, beside their addresses: the machine may have its own authority. */
  readonly settings: { readonly allowPrivateAddress: true; readonly ca?: string };
}

/** Returns the index of the environment or of pip's configuration, and otherwise the public one. */
export function indexOfPip(): string {
  const { PIP_INDEX_URL, UV_INDEX_URL, PIP_CONFIG_FILE } = process.env;
  const given = PIP_INDEX_URL ?? UV_INDEX_URL;
  if (given) return given.replace(/\/+$/, '');
  const files = [
    PIP_CONFIG_FILE,
    join(homedir(), '.config/pip/pip.conf'),
    join(homedir(), '.pip/pip.conf'),
    '/etc/pip.conf',
  ];
  for (const file of files) {
    const found = /^\s*index[-_]url\s*=\s*(\S+)/m.exec(textOf(file))?.[1];
    if (found !== undefined) return found.replace(/\/+$/, '');
  }
  return 'https://pypi.org/simple';
}

function textOf(path: string | undefined): string {
  try {
    return path === undefined ? '' : readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Returns the index that pip uses. Throws when it does not answer. */
export async function realIndex(): Promise<PythonIndex> {
  const url = indexOfPip();
  const response = await fetch(`${url}/six/`, {
    headers: { accept: 'application/vnd.pypi.simple.v1+json' },
  });
  const page = (await response.json()) as { files: { url: string }[] };
  const [first] = page.files;
  if (first === undefined) throw new Error(`${url} lists no file of six`);
  const { NODE_EXTRA_CA_CERTS: ca } = process.env;
  const settings = { allowPrivateAddress: true, ...(ca ? { ca } : {}) } as const;
  return { url, files: new URL(first.url, `${url}/six/`).origin, settings };
}
