#!/usr/bin/env -S MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 node --min-semi-space-size=4 --max-semi-space-size=4
// The flags keep the young generation small: 10 % fewer requests per second, 20 % less memory. It has its full size from
// the start: a quarter fewer collections until the server is ready. With the variables, all threads share one heap of the C
// library, and it returns large blocks: a quarter less memory while threads work.
// Starts on any Node and hands over to Node 24, which the server is tested with and whose copy npm installs.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Node would open a debugger on SIGUSR1, by which another process of the same user controls this one, and end on SIGUSR2.
for (const signal of ['SIGUSR1', 'SIGUSR2']) process.on(signal, () => {});

const starter = 'NODE_HANDED_OVER_BY';
const major = Number(process.versions.node.split('.')[0]);

if (major >= 24) {
  // Compiled code is kept: the next start is faster and takes 20 MB less. In a read-only folder, each start compiles
  // again.
  const { enableCompileCache } = await import('node:module');
  // Threads read the variable.
  process.env.NODE_COMPILE_CACHE ??= fileURLToPath(
    new URL('../node_modules/.cache/sluice', import.meta.url),
  );
  enableCompileCache();
  endWithStarter();
  await import('./own-imports.js');
  const { currentBundle, serverBundle } = await import('./bundle.js');
  const bundle = currentBundle();
  const server = bundle && process.argv[2] === 'serve' ? serverBundle() : undefined;
  if (server === undefined) {
    // After a change of the sources, they run themselves: a start takes twice as long.
    await import(bundle ?? '../src/cli/main.ts');
  } else {
    const { loadOneFile } = await import('./one-file.js');
    process.exitCode = await loadOneFile(server).runProgram();
  }
} else {
  handOver();
}

/** Ends this process when the one that has handed over to it is killed: its supervisor starts another one. */
function endWithStarter() {
  if (Number(process.env[starter]) !== process.ppid) return;
  delete process.env[starter];
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  process.channel?.unref();
}

function handOver() {
  const node = installedNode();
  if (node === undefined) {
    console.error(
      `Sluice requires Node 24, and this is Node ${process.versions.node}. Install Node 24, or run 'npm install --include=optional', which installs a copy of it on Linux.`,
    );
    process.exit(1);
  }
  const args = [...process.execArgv, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const child = spawn(node, args, {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, [starter]: String(process.pid) },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
}

function installedNode() {
  try {
    // An import of `node:process` would open the standard input.
    const { arch, platform } = process;
    const { resolve } = createRequire(import.meta.url);
    return join(dirname(resolve(`node-${platform}-${arch}/package.json`)), 'bin/node');
  } catch {
    return undefined;
  }
}
