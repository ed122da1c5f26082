import { Fault } from '../../../foundation/fault.ts';
import { startFaultOf } from './postgres-connection.ts';

const retryAfterSeconds = 5;

export function usedByOther(): Fault {
  return new Fault(
    'unavailable',
    'Another server uses the database. One server at a time can: stop the other one first. If its host has failed, PostgreSQL notices that within a minute',
    { phase: 'store' },
  );
}

export function takenByLeader(): Fault {
  return new Fault(
    'unavailable',
    'Another replica leads now, and this one changes nothing any more: try again in a moment',
    { phase: 'store', retryAfterSeconds },
  );
}

export function takenByOther(): Fault {
  return new Fault(
    'unavailable',
    'Another server has taken the database, and this one changes nothing any more: the operator stops one of them, and restarts this one if it is the one to keep',
    { phase: 'store' },
  );
}

/** The fault of what needs the database while it does not respond: it would wait for half a minute. */
export function silentDatabase(): Fault {
  return new Fault(
    'unavailable',
    'The database does not answer this server, which changes nothing until it does: try again in a moment',
    { phase: 'store', retryAfterSeconds },
  );
}

export function notHeld(): Fault {
  return new Fault(
    'unavailable',
    'The connection to the database was lost and is being restored: try again in a moment',
    { phase: 'store', retryAfterSeconds },
  );
}

/** Reports each reason of an outage once. */
export function outagesFor(report: (reason: string | undefined) => void) {
  const reasons = new Set<string>();
  return {
    note(error: unknown): void {
      const fault = startFaultOf(error);
      const reason = fault instanceof Error ? fault.message : String(fault);
      if (!reasons.has(reason)) report(reason);
      reasons.add(reason);
    },
    /** Returns what the database has answered. */
    end<T>(result?: T): T | undefined {
      if (reasons.size > 0) report(undefined);
      reasons.clear();
      return result;
    },
  };
}
