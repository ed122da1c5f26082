/** Fuzzes a server for longer than a test may take: `node test/fuzz/by-hand.ts <count> [seed] [lanes]`. */
import { startFuzzWorld } from './fuzz-world.ts';
import { type FuzzFigures, fuzz } from './run.ts';

const [count = '100000', seed = String(Math.floor(Math.random() * 2 ** 31)), lanes = '8'] =
  process.argv.slice(2);
console.log(`seed ${seed}`);
const began = performance.now();
let shownAt = began;

function show(figures: FuzzFigures): void {
  const { sent, longestTurnMs, earlyRss, lastRss } = figures;
  const seconds = Math.round((performance.now() - began) / 1000);
  const megabytes = [earlyRss, lastRss].map(rss => `${Math.round(rss / 2 ** 20)} MiB`).join(' -> ');
  console.log(
    `${sent} in ${seconds} s, longest turn ${Math.round(longestTurnMs)} ms, ${megabytes}`,
  );
}

await using world = await startFuzzWorld();
const { figures, findings } = await fuzz(world, {
  seed: Number(seed),
  count: Number(count),
  lanes: Number(lanes),
  onProgress(soFar) {
    if (performance.now() - shownAt < 10_000) return;
    shownAt = performance.now();
    show(soFar);
  },
});
show(figures);
console.log(Object.fromEntries([...figures.statuses].sort()));
const errors = world.server.sluice.output().match(/"msg":"unexpected error".*/g) ?? [];
for (const line of errors.slice(0, 5)) console.log(line.slice(0, 2000));
for (const found of findings) console.log(found);
process.exitCode = findings.length + errors.length > 0 ? 1 : 0;
