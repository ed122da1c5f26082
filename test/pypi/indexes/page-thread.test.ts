/** The thread that rewrites pages of indexes: it takes neither a processor nor memory from the event loop. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createPageThread } from '../../../src/pypi/indexes/page-thread.ts';

/** Returns the priorities of all threads of this process. Source: proc_pid_stat(5). */
function priorities(): Map<string, number> {
  const found = readdirSync('/proc/self/task').map(id => {
    const [, facts = ''] = /\) (.*)/.exec(readFileSync(`/proc/self/task/${id}/stat`, 'utf8')) ?? [];
    return [id, Number(facts.split(' ')[16])] as const;
  });
  return new Map(found);
}

test('a page is rewritten behind the event loop, and goes there without a copy', async () => {
  const thread = createPageThread();
  try {
    const files = Array.from({ length: 200 }, (_, at) => ({
      filename: `lib-${at}-py3-none-any.whl`,
      url: `lib-${at}-py3-none-any.whl`,
      hashes: { sha256: 'a'.repeat(64) },
    }));
    // Short texts share their memory, and are copied.
    const body = new Uint8Array(new TextEncoder().encode(JSON.stringify({ files })));
    const page = await thread.rewrite({
      ...{ body, contentType: 'application/vnd.pypi.simple.v1+json', project: 'lib' },
      ...{ url: 'https://h.test/simple/lib/', key: Buffer.alloc(32) },
    });
    const { files: read } = JSON.parse(Buffer.from(page).toString()) as { files: object[] };
    assert.equal(read.length, 200);
    assert.equal(body.length, 0);
    const all = priorities();
    const own = all.get(String(process.pid)) ?? 0;
    assert.ok(
      [...all.values()].some(priority => priority > own),
      JSON.stringify([...all]),
    );
  } finally {
    await thread.close();
  }
});
