import { Counter, Gauge, type Registry } from 'prom-client';

/** Notes that a piece of regular work has ended. */
export type NoteWork = (work: string, result: 'done' | 'failed') => void;

/** Notes what a sweep has removed. */
export type NoteSwept = (files: number, bytes: number) => void;

/** Adds metrics of the regular work of the server. Work that a stop has cut short does not count. */
export function createWorkMetrics(registry: Registry): {
  note: NoteWork;
  noteSwept: NoteSwept;
  noteRunCheck: (result: string) => void;
} {
  const registers = [registry];
  const runs = new Counter({
    name: 'sluice_work_runs_total',
    help: 'Runs of regular work, by result',
    labelNames: ['work', 'result'] as const,
    registers,
  });
  const lastSuccess = new Gauge({
    name: 'sluice_work_last_success_seconds',
    help: 'Time of the last success of regular work (seconds since the epoch)',
    labelNames: ['work'] as const,
    registers,
  });
  const contents = new Counter({
    name: 'sluice_swept_contents_total',
    help: 'Contents that sweeps have removed',
    registers,
  });
  const bytes = new Counter({
    name: 'sluice_swept_bytes_total',
    help: 'Bytes that sweeps have removed',
    registers,
  });
  const runChecks = new Counter({
    name: 'sluice_run_checks_total',
    help: 'Requests to platforms about runs that served names end with, by result',
    labelNames: ['result'] as const,
    registers,
  });
  return {
    noteRunCheck: result => runChecks.inc({ result }),
    note(work, result) {
      runs.inc({ work, result });
      if (result === 'done') lastSuccess.set({ work }, Date.now() / 1000);
    },
    noteSwept(removed, removedBytes) {
      contents.inc(removed);
      bytes.inc(removedBytes);
    },
  };
}
