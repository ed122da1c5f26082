import { Counter, Gauge, type Registry } from 'prom-client';

/** Notes messages with the same result: `sent`, `failed`, `dead` or `dropped`. */
type NoteMessages = (target: string, result: string, count?: number) => void;

/**
 * Adds metrics of the messages to other servers.
 *
 * @param ageOf returns the age of the oldest message that a receiver does not have yet (ms)
 */
export function createMessageMetrics(
  registry: Registry,
  targets: readonly string[],
  ageOf: (target: string) => Promise<number>,
): NoteMessages {
  const registers = [registry];
  const messages = new Counter({
    name: 'sluice_messages_total',
    help: 'Attempts to send messages, by receiver and result: sent, failed, dead (no attempt is left); and messages dropped because there are too many',
    labelNames: ['target', 'result'] as const,
    registers,
  });
  new Gauge({
    name: 'sluice_messages_oldest_seconds',
    help: 'Age of the oldest message that a receiver does not have yet; 0 for none',
    labelNames: ['target'] as const,
    registers,
    async collect() {
      for (const target of targets) {
        const ageMs = await ageOf(target).catch(() => undefined);
        if (ageMs !== undefined) this.set({ target }, ageMs / 1000);
      }
    },
  });
  return (target, result, count = 1) => messages.inc({ target, result }, count);
}
