#!/usr/bin/env node
// Runs on any Node: hands over to the one that came with the project where this one cannot run TypeScript.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url));
const own = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
const major = Number(process.versions.node.split('.')[0]);

if (major >= 24) {
  process.argv[1] = program;
  await import(program);
} else if (existsSync(own)) {
  const child = spawn(own, [program, ...process.argv.slice(2)], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
} else {
  console.error(`sluice needs Node 24 and this is ${process.versions.node}: run 'npm ci' first`);
  process.exit(1);
}
