/** A dry run says why a build could not start, and so does the page of the form. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startSluice } from '../world/sluice.ts';

test('a dry run without a builder does not succeed, and says what is missing', async () => {
  await using sluice = await startSluice({ config: { limits: { builds: { anonymous: 'off' } } } });
  const dockerfile = 'FROM scratch\nCOPY . /\n';
  const response = await sluice.fetch('/v1alpha2/container', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      containerFile: Buffer.from(dockerfile).toString('base64'),
      dryRun: true,
    }),
  });
  assert.equal(response.status, 200);
  const { succeeded, reason, buildId } = (await response.json()) as Record<string, unknown>;
  assert.equal(succeeded, false);
  assert.match(String(reason), /builder|BuildKit/);
  assert.match(String(buildId), /_0$/);
  const query = new URLSearchParams({ by: 'dockerfile', dockerfile });
  const page = await sluice.fetch(`/?plan=1&${query}`, { headers: { accept: 'text/html' } });
  const html = await page.text();
  assert.match(html, /Something is missing/);
  const words = String(reason).slice(0, 40).replaceAll("'", '&#39;');
  assert.ok(html.includes(words), words);
});
