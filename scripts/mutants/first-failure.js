/** A reporter of Node's tests that ends the process with the first test that fails: no other test needs to. */
export default async function* firstFailure(events) {
  for await (const { type } of events) {
    if (type === 'test:fail') process.exit(1);
    yield '';
  }
}
