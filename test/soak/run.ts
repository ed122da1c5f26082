/** `npm run soak [-- --minutes 40 --replicas 2 --warm-up 30]`: a server under mixed work, and what of it grows. */
import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { soak } from './soak.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '40' },
    replicas: { type: 'string', default: '1' },
    'warm-up': { type: 'string', default: '30' },
    /** A folder for snapshots of the heap, for the tools of Chromium. */
    snapshots: { type: 'string' },
    /** A file that gets the figures of each round as a line of JSON. */
    figures: { type: 'string' },
  },
});
const until = performance.now() + Number(values.minutes) * 60_000;
const { rounds, failures, trends, growing } = await soak({
  warmUp: Number(values['warm-up']),
  replicas: Number(values.replicas),
  snapshots: values.snapshots,
  isOver: () => performance.now() > until,
  onRound(round, figures) {
    if (values.figures) appendFileSync(values.figures, `${JSON.stringify({ round, figures })}\n`);
    if (round % 10 === 0) console.error(`round ${round}`);
  },
});
const shown = (value: number) => (Math.abs(value) < 100 ? value.toFixed(2) : value.toFixed(0));
for (const [name, { perRound, score, first, last, grows }] of trends) {
  const slope = `${shown(perRound)} a round, score ${score.toFixed(1)}`;
  console.log(`${grows ? 'GROWS ' : ''}${name}: ${shown(first)} to ${shown(last)}, ${slope}`);
}
for (const failure of failures) console.log(failure);
console.log(
  `${rounds} rounds after the warm-up; ${growing.length} figures grow, ${failures.length} failures`,
);
process.exit(growing.length + failures.length > 0 ? 1 : 0);
