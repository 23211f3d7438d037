"""The price of a request, from the genai-prices tables; a model without a price is None, never a guess."""

from __future__ import annotations

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price


def price_usd(
    model: str, base_url: str, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0
) -> float | None:
    """US dollars for the tokens of one request at a provider known by its API address, or None."""
    try:
        usage = PricedUsage(
            input_tokens=prompt_tokens, output_tokens=completion_tokens, cache_read_tokens=cached_tokens
        )
        return float(calc_price(usage, model_ref=model, provider_api_url=base_url).total_price)
    except Exception:  # whatever the tables or their code cannot take has no price, and costs no answer
        return None
