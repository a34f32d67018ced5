-- What an attempt ran out of. Attempts of earlier versions said it in words only.
ALTER TABLE attempts ADD COLUMN exhausted TEXT;

UPDATE attempts SET exhausted = CASE
    WHEN detail = 'the budget is spent: tokens' THEN 'tokens'
    WHEN detail = 'the budget is spent: usd' THEN 'usd'
    WHEN detail = 'the budget is spent: turns' THEN 'turns'
    WHEN detail = 'the budget is spent: minutes' THEN 'minutes'
    WHEN detail = 'the budget is spent: tool-calls' THEN 'tool-calls'
    WHEN detail LIKE 'nothing says what % costs, and the budget is in dollars' THEN 'price'
    WHEN detail LIKE 'the budget is spent: disk%' THEN 'disk'
    WHEN detail LIKE 'the disk has less than %' THEN 'disk'
END WHERE ending = 'budget-exhausted';
