/**
 * The health check of a replica: is it ready? Docker restarts a container that ends, but not one that hangs. A leader
 * that hangs would hold up the whole site, so this ends a server that has not answered for a while.
 */
const { readFileSync } = require('node:fs');

const address = 'http://127.0.0.1:9090';
const patienceMs = 30_000;

async function check() {
  try {
    const answer = await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(patienceMs) });
    return answer.ok;
  } catch (error) {
    if (error.name === 'TimeoutError') await endUnlessAlive();
    return false;
  }
}

/** Ends the server unless it is alive: `/readyz` may wait for a database, `/healthz` waits for nothing. */
async function endUnlessAlive() {
  try {
    await fetch(`${address}/healthz`, { signal: AbortSignal.timeout(5000) });
  } catch (error) {
    if (error.name !== 'TimeoutError') return;
    // The first process is that of `init: true`; the server is its only child, and its end is that of the container.
    const [server] = readFileSync('/proc/1/task/1/children', 'utf8').trim().split(' ');
    if (server) process.kill(Number(server), 'SIGKILL');
  }
}

check().then(isReady => process.exit(isReady ? 0 : 1));
