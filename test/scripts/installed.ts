import assert from 'node:assert/strict';
import { readdirSync, realpathSync, statSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProgram } from '../world/program.ts';
import { requireCommand, requireNode } from '../world/tools.ts';

export const project = fileURLToPath(new URL('../..', import.meta.url));

export const majors = [20, 22, 24] as const;
export type Major = (typeof majors)[number];

/** Returns the program of a version of Node. The tests run on Node 24. */
export function nodeOf(major: Major): string {
  return major === 24 ? process.execPath : requireNode(major);
}

/** Runs a program and returns its standard output. Throws an `AssertionError` when it fails. */
export async function runWell(command: readonly string[], cwd: string, env = {}): Promise<string> {
  const { HOME, PATH } = process.env;
  const { code, stdout, stderr } = await runProgram(command, { cwd, env: { HOME, PATH, ...env } });
  assert.equal(code, 0, `${command.join(' ')}\n${stdout}\n${stderr}`);
  return stdout;
}

/** Makes the packages by the command of the README, and returns their tarballs. */
export async function pack(folder: string): Promise<{ server: string; client: string }> {
  const printed = await runWell(['npm', 'run', '--silent', 'pack', '--', folder], project);
  const [server = '', client = ''] = printed.trim().split('\n');
  return { server, client };
}

/** Installs packages in a new directory, with the npm of this machine on a version of Node. */
export async function install(
  folder: string,
  major: Major,
  packages: readonly string[],
): Promise<void> {
  await mkdir(folder);
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  const npm = realpathSync(requireCommand('npm'));
  const patience = [
    '--fetch-timeout=20000',
    '--fetch-retries=5',
    '--fetch-retry-mintimeout=1000',
    '--fetch-retry-maxtimeout=5000',
  ];
  const flags = ['--no-audit', '--no-fund', '--prefer-offline', ...patience];
  const command = [nodeOf(major), npm, 'install', ...flags, ...packages];
  await runWell(command, folder, networkOf(process.env));
}

/** Returns the variables that say how this machine reaches the package registry. */
function networkOf(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const names =
    /^(?:NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|npm_config_(?:cafile|registry)|(?:https?|no)_proxy)$/i;
  return Object.fromEntries(Object.entries(env).filter(([name]) => names.test(name)));
}

/** Returns the size of all files in a directory, in bytes, and their paths. */
export function filesIn(folder: string): { bytes: number; paths: string[] } {
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name));
  return { bytes: paths.reduce((sum, path) => sum + statSync(path).size, 0), paths };
}
