/** The sweep, and the clock that it trusts. */

export { clocksOf, createClockCheck, createSteadyClock } from '../steady-clock.ts';
export { sweep } from './sweep.ts';
