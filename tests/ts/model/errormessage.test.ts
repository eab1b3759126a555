import { expect, it } from 'vitest';

import { messageOf } from '../../../src/model/errormessage';

it('is the message of an error, and the text of anything else', () => {
  expect(messageOf(new TypeError('Failed to fetch'))).toBe('Failed to fetch');
  expect(messageOf('refused')).toBe('refused');
  expect(messageOf(undefined)).toBe('undefined');
});
