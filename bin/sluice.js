#!/usr/bin/env -S node --max-semi-space-size=4
// The flag keeps the young generation small: a tenth of the requests a second for a fifth of the memory.
// Runs on any Node: hands over to the one that came with the project where this one cannot run TypeScript.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const pathOf = path => fileURLToPath(new URL(path, import.meta.url));
const program = pathOf('../src/cli/main.ts');
const own = pathOf('../node_modules/.bin/node');
const major = Number(process.versions.node.split('.')[0]);

if (major >= 24) {
  // What was stripped and compiled once is kept: the next start is faster and takes 20 MB less. Where
  // the folder cannot be written nothing is lost but that.
  const { enableCompileCache } = await import('node:module');
  // Threads look for the variable.
  process.env.NODE_COMPILE_CACHE ??= pathOf('../node_modules/.cache/sluice');
  enableCompileCache();
  await import(program);
} else if (existsSync(own)) {
  const args = [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const child = spawn(own, args, { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
} else {
  console.error(`sluice needs Node 24 and this is ${process.versions.node}: run 'npm ci' first`);
  process.exit(1);
}
